/* Loads what stands behind a page with exercises; from a folder (file://) a browser loads no module. */
(function () {
  "use strict";
  const progress = document.getElementById("u-progress");
  const workbench = document.getElementById("u-workbench");
  if (location.protocol !== "file:") {
    if (progress) import("./progress.mjs");
    else if (workbench) import("./workbench.mjs");
    else import("./exercises.mjs");
    return;
  }
  const note = document.createElement("p");
  note.className = "u-elsewhere";
  note.textContent = progress
    ? "This page was opened from a folder: browsers keep no progress for such a page. Read the book from its address, or run make book."
    : "This page was opened from a folder, and browsers run no exercises there. Solve them in Jupyter or Colab, read the book from its address, or run make book.";
  if (progress || workbench) (progress ?? workbench).replaceChildren(note);
  else document.querySelector("#exercises > h2")?.after(note);
})();
