/* The search: the index (see the extension book_search) and a query → the entries, best first.
   MiniSearch ranks them (BM25, fields weighed); here is what a word is, and what counts more. */
(function () {
  "use strict";
  const { entries, stopwords, stem } = window.unrolledIndex;
  const FIELDS = { title: 3, terms: 4, page: 1.5, text: 1, code: 0.2 };
  const KINDS = { opening: 1.3, section: 1, beside: 0.5, around: 0.6, term: 1 };
  // Words of a question that say nothing of what it is about.
  const ASKED = new Set(`what how why when which who does do can should i we you my the me mean vs
    versus difference between use using explain`.split(/\s+/));
  const DEFINED = 3; // how much more a section weighs that explains just what was asked for
  const PART = 1.5; // and one that explains a part of it
  const known = new Set(); // all words of the index, as they are compared

  /** A word as it is compared: small, without marks, as the British spell it, without its ending. */
  const seen = new Map();
  const compared = (word) => {
    if (!seen.has(word)) seen.set(word, compare(word));
    return seen.get(word);
  };
  function compare(word) {
    const plain = word.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f'’]/g, "");
    if (stopwords.has(plain)) return null;
    return stem(plain.replace(/iz(?=[aei])/g, "is").replace(/l(?=l(ed|ing)$)/, ""));
  }

  /** The words of a text; of one with a hyphen its parts, and the whole without it. */
  function split(text) {
    const found = text.match(/[\p{L}\p{N}]+(?:[-–][\p{L}\p{N}]+)*/gu) ?? [];
    return found.flatMap((word) => {
      const parts = word.split(/[-–]/);
      return parts.length > 1 ? [...parts, parts.join("")] : parts;
    });
  }

  const phrase = (text) => split(text).map(compared).filter((word) => word).join(" ");

  const engine = new MiniSearch({
    fields: Object.keys(FIELDS),
    storeFields: [],
    tokenize: split,
    processTerm: (word) => {
      const term = compared(word);
      if (term) known.add(term);
      return term;
    },
    extractField: (entry, name) => (name === "terms" ? entry.terms.join(" ; ") : entry[name]),
  });
  const numbered = entries.map((entry, id) => ({ ...entry, id }));
  const ready = engine.addAllAsync(numbered, { chunkSize: 20 }); // the page answers meanwhile
  const explains = entries.map((entry) => entry.terms.map(phrase));

  /** The entries that fit, best first: sections, then terms of the glossary. */
  window.unrolledSearch = async (query, most = 10) => {
    await ready;
    const all = split(query);
    const asking = all.filter((word) => !ASKED.has(word.toLowerCase()));
    const terms = (asking.length ? asking : all).map(compared).filter((word) => word);
    if (!terms.length) return [];
    const whole = terms.join(" ");
    const asked = (name) => name && ` ${whole} `.includes(` ${name} `);
    const share = (names) => (names.includes(whole) ? DEFINED : names.some(asked) ? PART : 1);
    const boost = (id) => KINDS[entries[id].kind] * share(explains[id]);
    const found = engine.search(terms.join(" "), {
      tokenize: (text) => text.split(" "),
      processTerm: (term) => term,
      boost: FIELDS,
      boostDocument: boost,
      prefix: (term, i) => i === terms.length - 1 && term.length > 2 && !known.has(term),
      fuzzy: (term) => (!known.has(term) && term.length > 3 ? 0.34 : false),
    }).map(({ id, score }) => ({ ...entries[id], score }));
    const isTerm = ({ kind }) => kind === "term";
    const sections = found.filter((entry) => !isTerm(entry)).slice(0, most);
    return [...sections, ...found.filter(isTerm).slice(0, 3)];
  };
})();
