// Keeps what a reader has visited, so that it stays readable without a network.
//
// A page comes from the network, always; the kept one only where there is none. A file whose address
// names its version never changes: the kept one is as good. One cache, one copy of each file: a new
// version takes the place of the old. Kept are files of this book that anybody may fetch; no words
// that were searched for, and no answers (those are the page's own affair, see answers.mjs).

const CACHE = "unrolled";
const NOT_HERE = `<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>No network</title><body style="font: 1.1rem/1.5 sans-serif; max-width: 32rem; margin: 4rem auto; padding: 0 1rem">
<h1>No network</h1>
<p>This page of the book has not been visited on this device yet, so it is not kept here.
Pages that you have visited are readable without a network.</p>
<p><a href="${registration.scope}">To the first page of the book</a></p>`;

oninstall = () => skipWaiting();
onactivate = (event) => event.waitUntil(clients.claim());

onfetch = (event) => {
  const { request } = event;
  const ours = request.url.startsWith(registration.scope) && !request.headers.has("range");
  if (request.method === "GET" && ours) event.respondWith(answer(event, request));
};

/** Where a file is kept: a page without what was searched for in it. */
function place(request) {
  const url = new URL(request.url);
  url.hash = "";
  if (!url.pathname.includes("/_static/")) url.search = "";
  return url.href.replace(/\/index\.html$/, "/");
}

async function answer(event, request) {
  const url = place(request);
  const cache = await caches.open(CACHE).catch(() => null); // refused: then there is only the network
  const named = url.includes("?") && request.cache !== "reload";
  const same = named && (await cache?.match(url));
  if (same) return same;
  try {
    const fresh = await fetch(request);
    if (fresh.ok && cache) event.waitUntil(keep(cache, url, fresh.clone()));
    return fresh;
  } catch (error) {
    const kept = await cache?.match(url, { ignoreSearch: true }); // if need be of another version
    if (kept) return kept;
    if (request.destination !== "document") throw error;
    return new Response(NOT_HERE, { status: 503, headers: { "content-type": "text/html" } });
  }
}

async function keep(cache, url, response) {
  try {
    await cache.put(url, response);
    for (const { url: other } of await cache.keys(url, { ignoreSearch: true }))
      if (other !== url) await cache.delete(other);
  } catch {} // no room: it is not kept
}
