/* Byte-level BPE in the page: the tokens of what is typed, after as many merges as the slider says. */
(() => {
  const PIECE = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
  const VISIBLE = { " ": "␣", "\n": "↵", "\t": "⇥" };
  const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const key = (a, b) => a * 65536 + b;

  /* A token as text, and whether it is text: bytes of a cut character are written in hex. */
  const written = (bytes) => {
    try {
      return [decoder.decode(Uint8Array.from(bytes)).replace(/[ \n\t]/g, (c) => VISIBLE[c]), true];
    } catch {
      return [bytes.map((b) => b.toString(16).toUpperCase().padStart(2, "0")).join(" "), false];
    }
  };

  /* The ids of one piece: again and again the pair whose merge was learnt first is joined. */
  const merged = (piece, ranks, n) => {
    let ids = [...encoder.encode(piece)];
    for (;;) {
      let best = n, at = -1;
      for (let i = 0; i + 1 < ids.length; i++) {
        const rank = ranks.get(key(ids[i], ids[i + 1])) ?? n;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return ids;
      ids.splice(at, 2, 256 + best);
    }
  };

  for (const figure of document.querySelectorAll("figure.u-typed:not([data-ready])")) {
    figure.dataset.ready = "";
    const { text, longest, stops, start, merges } = JSON.parse(figure.querySelector("script").textContent);
    const vocab = Array.from({ length: 256 }, (_, byte) => [byte]), ranks = new Map();
    for (let i = 0; i < merges.length; i += 2) {
      ranks.set(key(merges[i], merges[i + 1]), i / 2);
      vocab.push([...vocab[merges[i]], ...vocab[merges[i + 1]]]);
    }
    const says = figure.querySelector(".u-typed-says"), list = figure.querySelector("ol");
    const form = document.createElement("form");
    form.className = "u-typed-form";
    form.autocomplete = "off";
    form.innerHTML = `<label>your text <textarea rows="2" maxlength="${longest}" autocapitalize="off" autocorrect="off" spellcheck="false"></textarea></label>
      <label>number of merges <input type="range" min="0" max="${stops.length - 1}" step="1"></label>`;
    const [field, slider] = ["textarea", "input"].map((q) => form.querySelector(q));
    for (const one of [field, slider]) one.dataset.lmSuppressShortcuts = "true";
    form.addEventListener("submit", (event) => event.preventDefault());
    field.value = text;
    slider.value = start;
    says.setAttribute("role", "status");
    says.before(form);

    const draw = () => {
      const n = stops[slider.value], pieces = [];
      let count = 0;
      for (const [text] of field.value.matchAll(PIECE)) {
        const piece = document.createElement("li");
        for (const id of merged(text, ranks, n)) {
          const [shown, isText] = written(vocab[id]);
          const [box, token, small] = ["span", "span", "small"].map((tag) => document.createElement(tag));
          box.className = "u-typed-token";
          if (!isText) token.className = "u-typed-bytes";
          token.textContent = shown;
          small.textContent = id;
          box.append(token, small);
          piece.append(box);
          count++;
        }
        pieces.push(piece);
      }
      list.replaceChildren(...pieces);
      const merging = `${n.toLocaleString("en")} merge${n === 1 ? "" : "s"}`;
      slider.setAttribute("aria-valuetext", merging);
      says.textContent = `${merging}: ${count} tokens for ${encoder.encode(field.value).length} bytes`;
    };
    form.addEventListener("input", draw);
    draw();
  }
})();
