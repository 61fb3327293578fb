// Python, numpy and the book's `check`, in a Web Worker or in node.
//
//   import { start } from "./live.mjs";
//   const python = await start({ base: new URL("./", import.meta.url), progress: (share) => … });
//   const report = await python.run("c01_chain_rule/shift", source, seed);
//
// `start` loads the files of manifest.json (`total_bytes` of them, the size that a button may name)
// and then closes every road out: of the global names only those in LEFT stay, no text becomes code.
// (postMessage, onmessage and timers stay; what else a worker needs it keeps in a constant before.)
// base: the address of the bundle's folder. version: of the manifest, lest a browser takes an older
// one. progress: called with the loaded share, 0 to 1. A worker calls it once.
//
// `run` checks an answer. source: the text that the reader wrote, which defines the name of the
// exercise. seed: of the tests' inputs; null for a fresh one. It gives
//
//   state     "passed", "failed", "unwritten", or "dead" (out of memory, os._exit, …): end the worker
//   text      the report as `check` prints it
//   n_passed, n_tests
//   seed      the one that was used: the same seed gives the same inputs again
//   output    what the reader's code printed, cut off after 20,000 characters
//   renew     whether the reader's code has changed what judges answers: start a fresh interpreter
//
// `bench` does what the workbench asks (unrolled_book/workbench/page.py): an object in, an object out.
//
// `tryOut("c14_attention/0", source)` runs a listing after what the chapter defined for it. It gives
// state, text (a last expression's value, or what went wrong), output and renew.
//
// They never throw on the reader's account; `start` throws where the bundle cannot be loaded. An
// endless loop ends only with the worker.
//
// Of manifest.json the page may use: `total_bytes`; `exercises`, the names that run here;
// `elsewhere`, {name: reason} of those that do not; `files`, {name: {bytes, sha512}}.

const MEMORY = 1 << 30; // bytes; beyond them Python raises MemoryError, and the page lives on
const LEFT = new Set(
  `AbortController AbortSignal AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array
  BigUint64Array Boolean DOMException DataView Date Error ErrorEvent EvalError Event EventTarget
  FinalizationRegistry Float32Array Float64Array Infinity Int16Array Int32Array Int8Array Intl Iterator
  JSON Map Math MessageChannel MessageEvent MessagePort NaN Number Object Promise Proxy RangeError
  ReferenceError Reflect RegExp Set String Symbol SyntaxError TextDecoder TextEncoder TypeError
  URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly
  addEventListener clearInterval clearTimeout console constructor crypto decodeURI decodeURIComponent
  dispatchEvent encodeURI encodeURIComponent globalThis isFinite isNaN isSecureContext location name
  onerror onmessage onmessageerror onunhandledrejection origin parseFloat parseInt performance
  postMessage queueMicrotask removeEventListener self setInterval setTimeout structuredClone
  undefined`.split(/\s+/),
);
const SITE = "/lib/python3.12/site-packages";

export async function start({ base, version = "", progress = () => {} }) {
  const { manifest, get, API, Module, printed } = await boot({ base, version, progress });
  let dead = "";
  API.on_fatal = (error) => (dead ||= first(error));
  const check = API.runPythonInternal("from live_reader import examine; examine");
  const show = API.runPythonInternal("from live_reader import listing; listing");
  const programs = {}; // by chapter: what it defined before each listing
  close();
  const evaluate = (source) => String(API.runPythonInternal(source)); // for the book's tests
  return { run, tryOut, bench, manifest, evaluate };

  async function run(exercise, source, seed = null) {
    await texts(exercise);
    const whose = `✗ ${exercise.split("/").at(-1)}: `;
    return { n_passed: 0, n_tests: 0, seed, ...said(() => check(exercise, source, seed), whose) };
  }

  async function tryOut(listing, source) {
    await texts(listing);
    const [chapter, n] = listing.split("/");
    programs[chapter] ??= JSON.parse(new TextDecoder().decode(await get(`${chapter}.json`)));
    return said(() => show(programs[chapter][n], source));
  }

  async function bench(request) {
    if (request.corpus) await load(`${request.corpus}.txt.bz2`);
    const asked = JSON.stringify(JSON.stringify(request)); // a text of Python's as well
    return JSON.parse(evaluate(`from unrolled_book.workbench.page import handle\nhandle(${asked})`));
  }

  async function texts(name) {
    for (const file of manifest.texts[name] ?? []) await load(file);
  }

  async function load(file) {
    const path = `${SITE}/unrolled/data/texts/${file}`;
    if (!Module.FS.analyzePath(path).exists) write(Module.FS, path, await get(file));
  }

  function said(ask, whose = "") {
    try {
      if (!dead) return JSON.parse(ask());
    } catch (error) {
      dead ||= first(error);
    }
    const [, why] = ENDS.find(([sign]) => sign.test(dead)) ?? ["", dead];
    const text = `${whose}Python has ended (${why}); it begins anew with the next ${whose ? "check" : "run"}`;
    return { state: "dead", text, output: printed() };
  }
}

const first = (error) => String(error?.message ?? error).trim().split("\n").at(-1);
const ENDS = [
  [/exit\(\d+\)/, "the code has ended the program"],
  [/call stack/, "something is nested too deeply"],
  [/memory|exception set/i, "it needs more memory than the page gives it, 1 GB"],
  [/Aborted/, "it broke down"],
];

/** The interpreter, with all the archives that the manifest loads first. */
export async function boot({ base, version = "", progress = () => {} }) {
  const read = reader(new URL(base));
  const manifest = JSON.parse(new TextDecoder().decode(await read("manifest.json", version)));
  let loaded = 0;
  const get = async (name) => {
    const { bytes, sha512 } = manifest.files[name];
    const data = await whole(read, name, sha512.slice(0, 16), bytes);
    if (manifest.first.includes(name)) progress((loaded += bytes) / manifest.total_bytes);
    return data;
  };
  const [program, wasm, ...archives] = await Promise.all(
    manifest.first.map(async (name) => unzipped(await get(name))),
  );
  const python = await interpreter(new TextDecoder().decode(program), wasm, archives.map(files));
  const evaluate = (source) => String(python.API.runPythonInternal(source));
  return { ...python, manifest, get, evaluate };
}

/** Leaves nothing that reaches another address, or that makes code of a text: that could import. */
function close() {
  const none = { value: undefined, writable: false, configurable: false };
  const refuse = function () {
    throw new Error("a text does not become code here");
  };
  refuse.prototype = Object.getPrototypeOf(refuse);
  const kinds = [function () {}, async function () {}, function* () {}, async function* () {}];
  for (const kind of kinds.map(Object.getPrototypeOf)) {
    Object.defineProperty(kind, "constructor", { ...none, value: refuse });
  }
  const kept = { Function: refuse };
  for (const name of ["setTimeout", "setInterval"]) {
    const native = globalThis[name].bind(globalThis);
    kept[name] = (call, ...rest) => (typeof call === "function" ? native(call, ...rest) : refuse());
  }
  const open = [];
  for (const object of levels(globalThis)) {
    for (const name of Object.getOwnPropertyNames(object)) {
      if (LEFT.has(name) && !(name in kept)) continue;
      Reflect.defineProperty(object, name, { ...none, value: kept[name] });
      const left = globalThis[name];
      if (left !== kept[name] && Object(left) === left) open.push(name);
    }
  }
  if (open.length) throw new Error(`these roads stay open: ${open.join(", ")}`);
}

/** An object and what it inherits from, but for what every object does. */
function* levels(object) {
  for (; object && object !== Object.prototype; object = Object.getPrototypeOf(object)) yield object;
}

/** A file with all its bytes: one that was cut short, and kept so in a cache, is asked for again. */
async function whole(read, name, version, bytes) {
  const short = (data) => data.length < bytes; // a server may have unpacked it on the way
  const first = await read(name, version).catch(() => null);
  if (first && !short(first)) return first;
  const again = await read(name, version, "reload");
  if (short(again)) throw new Error(`${name} has ${again.length} bytes, expected ${bytes}`);
  return again;
}

/** How the bundle's files are read: by fetch, or from the disk in node. */
function reader(base) {
  if (base.protocol === "file:") {
    return async (name) => {
      const { readFile } = await import("node:fs/promises");
      return new Uint8Array(await readFile(`${decodeURIComponent(base.pathname)}${name}`));
    };
  }
  const { fetch, URL } = globalThis; // kept before the roads are closed
  return async (name, version = "", cache = "default") => {
    const answer = await fetch(new URL(version ? `${name}?${version}` : name, base), { cache });
    if (!answer.ok) throw new Error(`${name} cannot be loaded: ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  };
}

/** The bytes of a .gz file; a server that has unpacked it on the way is welcome. */
async function unzipped(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** [path, bytes] of each file of a tar archive, as archives.py writes them: short names only. */
function files(tar) {
  const found = [];
  const text = (from, length) =>
    new TextDecoder().decode(tar.subarray(from, from + length)).replace(/\0.*$/s, "");
  for (let at = 0; at < tar.length && tar[at] !== 0; ) {
    const size = parseInt(text(at + 124, 12), 8);
    found.push([`${text(at + 345, 155)}/${text(at, 100)}`, tar.subarray(at + 512, at + 512 + size)]);
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return found;
}

function write(FS, path, bytes) {
  FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
  FS.writeFile(path, bytes, { canOwn: true });
}

/** Pyodide's own loader in short: no package index, no node, no window, a memory of our size. */
async function interpreter(program, wasm, archives) {
  const hidden = ["process", "require", "document", "window", "XMLHttpRequest", "fetch", "WebSocket"];
  const lines = [];
  const keep = (...parts) => lines.length < 200 && lines.push(parts.join(" "));
  const refused = () => Promise.reject(new Error("nothing is imported here"));
  const given = {
    console: { log: keep, warn: keep, error: keep, info: keep },
    globalThis: {},
    importScripts() {},
    refused,
    self: { location: { href: "" } },
  };
  const names = [...Object.keys(given), ...hidden];
  const closed = program.replace(/\bimport\(/g, "refused(");
  const create = new Function(...names, `${closed}\nreturn _createPyodideModule;`);
  const API = {
    config: { jsglobals: Object.create(null), packages: [], env: {}, args: [], indexURL: "" },
    lockFilePromise: Promise.resolve({ info: { version: "0.27.7" }, packages: {} }),
  };
  const unpack = (module) => {
    API.sitePackages = SITE;
    for (const [path, bytes] of archives.flat()) write(module.FS, path, bytes);
    module.FS.mkdirTree("/home/reader");
    module.FS.chdir("/home/reader");
    Object.assign(module.ENV, { HOME: "/home/reader", PYTHONINSPECT: "1" });
  };
  let fail;
  const failed = new Promise((_, reject) => (fail = reject)); // Emscripten would wait for ever
  const created = create(...Object.values(given))({
    API,
    arguments: [],
    noImageDecoding: true,
    noAudioDecoding: true,
    wasmMemory: new WebAssembly.Memory({ initial: 20971520 / 65536, maximum: MEMORY / 65536 }),
    print: keep,
    printErr: keep,
    locateFile: (name) => name,
    quit(status, error) {
      throw error;
    },
    preRun: [unpack], // a list: where a browser has JSPI, Pyodide adds to it
    instantiateWasm(imports, done) {
      imports.env.backtrace ??= () => 0; // which this build names and lacks
      const made = WebAssembly.instantiate(wasm, imports);
      made.then(({ instance, module }) => done(instance, module)).catch(fail);
      return {};
    },
  });
  const Module = await Promise.race([created, failed]);
  API.finalizeBootstrap();
  API._pyodide.set_excepthook();
  await API.packageIndexReady;
  API.initializeStreams();
  return { API, Module, printed: () => lines.join("\n") };
}
