/* A Transformer with RMS norms, rotary positions and SwiGLU, one token at a time, and a box to use it. */
(() => {
  function read(buffer) {
    const view = new DataView(buffer), length = view.getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const weights = {};
    for (const { name, shape, at } of header.tensors) {
      const floats = new Float32Array(buffer, 4 + length + at, shape[0]);
      if (shape.length === 1) { weights[name] = floats; continue; }
      const [rows, columns] = shape, matrix = new Float32Array(rows * columns);
      const bytes = new Int8Array(buffer, 4 + length + at + 4 * rows, rows * columns);
      for (let i = 0; i < matrix.length; i++) matrix[i] = bytes[i] * floats[Math.floor(i / columns)];
      weights[name] = matrix;
    }
    return { config: header.config, vocab: header.vocab, weights };
  }
  const times = (matrix, x) => {  // (rows, x.length) · x
    const y = new Float32Array(matrix.length / x.length);
    for (let r = 0, i = 0; r < y.length; r++) {
      let sum = 0;
      for (let c = 0; c < x.length; c++) sum += matrix[i++] * x[c];
      y[r] = sum;
    }
    return y;
  };
  const softmax = (x) => {
    const top = Math.max(...x), e = Array.from(x, (v) => Math.exp(v - top));
    const sum = e.reduce((a, b) => a + b);
    return e.map((v) => v / sum);
  };
  const rms = (x, gain, eps) => {
    const scale = 1 / Math.sqrt(x.reduce((a, v) => a + v * v, 0) / x.length + eps);
    return x.map((v, i) => v * scale * gain[i]);
  };
  const add = (x, y) => x.map((v, i) => v + y[i]);

  class Reader {  // what has been read so far: keys and values of every layer
    constructor({ config, weights }) {
      Object.assign(this, { config, weights, length: 0 });
      this.cache = Array.from({ length: config.n_layers }, () => ({ k: [], v: [] }));
    }
    turn(x, K, base) {  // rotary, half-split: entry i of a head goes with entry i + K/2
      const y = x.slice(), half = K / 2;
      for (let h = 0; h < x.length; h += K) {
        for (let i = 0; i < half; i++) {
          const angle = this.length * base ** (-2 * i / K), c = Math.cos(angle), s = Math.sin(angle);
          y[h + i] = x[h + i] * c - x[h + half + i] * s;
          y[h + half + i] = x[h + i] * s + x[h + half + i] * c;
        }
      }
      return y;
    }
    next(token) {  // { logits, maps: maps[layer][head] = weights over all tokens read }
      const { d_model: D, n_layers, n_heads: H, norm_eps, rope_theta } = this.config;
      const w = this.weights, K = this.config.head_dim, maps = [];
      let x = w["embedding.weight"].slice(token * D, (token + 1) * D);
      for (let l = 0; l < n_layers; l++) {
        const at = (name) => w[`stack.blocks.${l}.${name}.weight`], { k, v } = this.cache[l];
        const n = rms(x, at("norm_attention"), norm_eps);
        const q = this.turn(times(at("attention.q_proj"), n), K, rope_theta);
        k.push(this.turn(times(at("attention.k_proj"), n), K, rope_theta));
        v.push(times(at("attention.v_proj"), n));
        const mixed = new Float32Array(H * K);
        maps.push(Array.from({ length: H }, (_, h) => {
          const scores = k.map((key) => {
            let sum = 0;
            for (let i = h * K; i < (h + 1) * K; i++) sum += q[i] * key[i];
            return sum / Math.sqrt(K);
          });
          const weights = softmax(scores);
          weights.forEach((a, j) => {
            for (let i = h * K; i < (h + 1) * K; i++) mixed[i] += a * v[j][i];
          });
          return weights;
        }));
        x = add(x, times(at("attention.o_proj"), mixed));
        const both = times(at("feed_forward.up"), rms(x, at("norm_feed_forward"), norm_eps));
        const F = both.length / 2, gated = new Float32Array(F);
        for (let i = 0; i < F; i++) gated[i] = both[i] / (1 + Math.exp(-both[i])) * both[F + i];
        x = add(x, times(at("feed_forward.down"), gated));
      }
      this.length++;
      x = rms(x, w["stack.final_norm.weight"], norm_eps);
      return { logits: times(w["embedding.weight"], x), maps };
    }
  }

  const SHOWN = { "\n": "↵", " ": "␣" }, SAID = { "\n": "line end", " ": "space" };
  const shown = (c) => SHOWN[c] || c, said = (c) => SAID[c] || c;
  const percent = (p) => `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`;

  function box(figure, model, { prompt, longest, head }) {
    const { config, vocab } = model, place = figure.querySelector(".u-model-place");
    const ids = Object.fromEntries(vocab.map((c, i) => [c, i]));
    const choices = (n) => Array.from({ length: n }, (_, i) => `<option>${i + 1}</option>`).join("");
    place.outerHTML = `<form class="u-model-form" autocomplete="off">
      <label>Text <textarea rows="3" spellcheck="false"></textarea></label>
      <p class="u-cut" role="status"></p>
      <p class="u-model-row"><button type="button" value="1">Write a character</button>
      <button type="button" value="40">Write 40</button>
      <label>temperature <select class="u-t"><option>0.5<option selected>0.8<option>1.0<option>1.3</select></label></p>
      <div class="u-model-two"><div><p class="u-model-head">Next character</p><ol class="u-next"></ol></div>
      <div><p class="u-model-row"><span class="u-model-head">Attention</span>
      <label>layer <select class="u-l">${choices(config.n_layers)}</select></label>
      <label>head <select class="u-h">${choices(config.n_heads)}</select></label></p>
      <label class="u-from">from character <output></output><input type="range" min="1" value="1"></label>
      <p class="u-text" aria-hidden="true"></p><p class="u-model-says" role="status"></p></div></div></form>`;
    const form = figure.querySelector("form"), find = (q) => form.querySelector(q);
    const [area, from, output, says] = ["textarea", "input", "output", ".u-model-says"].map(find);
    for (const part of form.elements) part.dataset.lmSuppressShortcuts = "true";
    area.value = prompt;
    [find(".u-l").selectedIndex, find(".u-h").selectedIndex] = head.map((n) => n - 1);
    let seen = [], reader, logits, maps = [];  // maps[position] = maps of that token
    const look = () => {
      const t = Number(from.value) - 1, [layer, head] = [".u-l", ".u-h"].map((q) => find(q).selectedIndex);
      const weights = maps[t][layer][head];
      output.textContent = `${t + 1}, “${shown(seen[t])}”`;
      from.setAttribute("aria-valuetext", `${t + 1}, ${said(seen[t])}`);
      const text = find(".u-text");
      text.replaceChildren(...seen.map((c, j) => {
        const span = document.createElement("span");
        span.textContent = c === "\n" && j ? "↵\n" : shown(c);
        span.style.setProperty("--a", j <= t ? `${Math.round(100 * Math.sqrt(weights[j]))}%` : "0%");
        if (j === t) span.className = "u-here";
        return span;
      }));
      const best = weights.map((a, j) => [a, j]).sort((a, b) => b[0] - a[0]).slice(0, 3);
      says.textContent = `Layer ${layer + 1}, head ${head + 1} looks most at ${best.map(([a, j]) => `${said(seen[j])} (${j + 1}): ${percent(a)}`).join(", ")}.`;
    };
    const run = () => {
      const unknown = [...new Set([...area.value].filter((c) => !(c in ids)))];
      const text = ["\n", ...[...area.value].filter((c) => c in ids)];
      const cut = text.slice(0, 1).concat(text.slice(1).slice(-longest + 1));
      let same = 0;
      while (reader && same < seen.length && seen[same] === cut[same]) same++;
      if (!reader || same < seen.length) { reader = new Reader(model); maps = []; same = 0; }
      for (const c of cut.slice(same)) { const step = reader.next(ids[c]); logits = step.logits; maps.push(step.maps); }
      const atEnd = Number(from.value) >= seen.length || same < seen.length;
      seen = cut;
      from.max = seen.length;
      if (atEnd) from.value = seen.length;
      const probs = softmax(logits), order = probs.map((p, i) => [p, i]).sort((a, b) => b[0] - a[0]);
      find(".u-next").replaceChildren(...order.slice(0, 8).map(([p, i]) => {
        const row = document.createElement("li");
        row.style.setProperty("--p", `${100 * p}%`);
        row.innerHTML = `<span></span><b>${percent(p)}</b>`;
        row.firstChild.textContent = said(vocab[i]);
        row.dataset.p = p;
        return row;
      }));
      figure.dispatchEvent(new CustomEvent("read", { detail: { logits, tokens: seen.map((c) => ids[c]), vocab } }));
      look();
      find(".u-cut").textContent = text.length === cut.length ? "" :
        `The text is too long: the model reads its last ${longest - 1} of ${text.length - 1} characters, after a line end.`;
      if (unknown.length) says.textContent += ` Left out, for the model has no such character: ${unknown.join(" ")}`;
    };
    const write = () => {
      const tokens = seen.map((c) => ids[c]), heated = () => logits.map((z) => z / Number(find(".u-t").value));
      const probs = figure.choose ? figure.choose(logits, tokens) : softmax(heated());
      let r = Math.random(), i = 0;
      while (i < probs.length - 1 && (r -= probs[i]) > 0) i++;
      area.value += vocab[i];
      run();
    };
    area.addEventListener("input", run);
    form.addEventListener("change", ({ target }) => { if (target !== area) look(); });
    from.addEventListener("input", look);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("click", ({ target }) => {
      if (target.matches("button")) for (let n = Number(target.value); n--;) write();
    });
    run();
    area.focus();
  }

  for (const figure of document.querySelectorAll("figure.u-model:not([data-ready])")) {
    const root = document.documentElement.dataset.content_root;
    if (root === undefined) continue;  // a notebook: there is no file beside it
    figure.dataset.ready = "";
    const settings = JSON.parse(figure.querySelector("script").textContent), button = document.createElement("button");
    button.type = "button";
    button.textContent = "Load the model (0.7 MB)";
    const place = figure.querySelector(".u-model-place");
    place.textContent = "The model itself can run in this page. Nothing you type leaves it. ";
    place.append(button);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const answer = await fetch(`${root}_static/${settings.file}`);
        if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
        box(figure, read(await answer.arrayBuffer()), settings);
      } catch (error) {
        button.disabled = false;
        place.append(` It could not be loaded (${error.message}); a page opened as a file cannot load it.`);
      }
    });
  }
})();
