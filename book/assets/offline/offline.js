/* The book without a network (see sw.js). */
(function () {
  "use strict";
  if (location.protocol === "file:") return;
  const workers = navigator.serviceWorker; // none in private windows of some browsers, or over http
  if (!workers) return;
  const first = !workers.controller;
  const place = new URL("../../sw.js", document.currentScript.src);
  // The worker has not seen this page load if it begins with it: let it see that once more, also
  // what is still on its way.
  workers.addEventListener("controllerchange", () => {
    if (!first) return;
    const now = performance.now();
    const again = (url) => url.startsWith(location.origin) &&
      fetch(url).then((file) => file.blob()).catch(() => {});
    again(location.href);
    new PerformanceObserver((list) => {
      for (const { name, startTime } of list.getEntries()) if (startTime < now) again(name);
    }).observe({ type: "resource", buffered: true });
  }, { once: true });
  addEventListener("load", () => workers.register(place).catch(() => {}));
})();
