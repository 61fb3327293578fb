/* Loads the search when it is opened, or its page is asked: scripts that a page from a folder may load. */
(function () {
  "use strict";
  const FIELD = "form.bd-search input";
  let loading;
  function load() {
    const named = document.getElementById("u-search")?.content.querySelectorAll("script") ?? [];
    loading ??= [...named].reduce((before, { src }) => before.then(() => new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src, onload: done, onerror: failed });
      document.head.append(script);
    })), Promise.resolve());
    return loading;
  }
  async function begin(field) {
    try {
      await load();
      window.unrolledResults(field);
    } catch {
      loading = undefined; // without a network, say: the next time again
    }
  }
  addEventListener("focusin", ({ target }) => target.matches?.(`dialog ${FIELD}`) && begin(target));
  addEventListener("input", ({ target }) => target.matches?.(FIELD) && begin(target));
  // The page of the search asks at once for what stands in its address.
  const field = document.querySelector(`main ${FIELD}`);
  if (!field) return;
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.focus();
  if (field.value) begin(field);
})();
