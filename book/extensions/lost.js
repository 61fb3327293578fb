/* The page for a wrong address: if the book is not where its links lead, find it and turn them.
   It lies in one of the folders above the address; the one of its manifest is the right one. */
(function () {
  const base = document.currentScript.dataset.base;
  const above = location.pathname.split("/").slice(0, -1);
  const folders = above.map((_, n) => above.slice(0, n + 1).join("/") + "/");
  const isHere = (folder) =>
    fetch(folder + "manifest.webmanifest", { method: "HEAD" }).then((answer) => answer.ok, () => false);
  async function home() {
    if (location.protocol === "file:") return folders.at(-1); // nobody else opens this page there
    for (const folder of [base, ...folders]) if (await isHere(folder)) return folder;
    return base;
  }
  function turn(folder) {
    const parts = [document, ...[...document.querySelectorAll("template")].map((one) => one.content)];
    for (const name of ["href", "src", "action"])
      for (const element of parts.flatMap((part) => [...part.querySelectorAll(`[${name}^="${base}"]`)])) {
        const address = folder + element.getAttribute(name).slice(base.length);
        if (element.tagName !== "SCRIPT" || !element.isConnected) element.setAttribute(name, address);
        else { // a script runs once; another one takes its place
          const again = Object.assign(document.createElement("script"), { src: address, async: false });
          element.replaceWith(again);
        }
      }
    document.documentElement.dataset.content_root = folder;
  }
  let asked = false;
  addEventListener("error", async ({ target }) => {
    if (asked || !target.matches?.("link, script")) return;
    asked = true;
    const folder = await home();
    if (folder === base) return;
    if (document.readyState === "loading") await new Promise((go) => addEventListener("DOMContentLoaded", go));
    turn(folder);
  }, true);
})();
