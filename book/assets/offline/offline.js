/* The book without a network (see sw.js), and from a folder. */
(function () {
  "use strict";
  // From a folder a browser reads no other page: the search lists its finds without excerpts.
  if (location.protocol === "file:") {
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
    return;
  }
  const workers = navigator.serviceWorker; // none in private windows of some browsers, or over http
  if (!workers) return;
  const first = !workers.controller;
  const place = new URL("../../sw.js", document.currentScript.src);
  // The worker has not seen this page load if it begins with it: let it see that once more.
  workers.addEventListener("controllerchange", () => {
    if (!first) return;
    const asked = performance.getEntriesByType("resource").map((entry) => entry.name);
    for (const url of new Set([location.href, ...asked]))
      if (url.startsWith(location.origin)) fetch(url).then((file) => file.blob()).catch(() => {});
  }, { once: true });
  addEventListener("load", () => workers.register(place).catch(() => {}));
})();
