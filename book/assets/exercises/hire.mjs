// A worker with Python. What runs in there reaches this site and no other host: the policy of the page
// holds for a worker that begins in a blob of the page's own.
export function hire(hear) {
  if (!document.getElementById("u-policy")) {
    const policy = document.createElement("meta");
    policy.id = "u-policy";
    policy.httpEquiv = "Content-Security-Policy";
    policy.content = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:";
    document.head.append(policy);
  }
  const begin = `import ${JSON.stringify(new URL("./worker.mjs", import.meta.url).href)};`;
  const url = URL.createObjectURL(new Blob([begin], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  worker.onmessage = ({ data }) => hear(data, worker);
  worker.onerror = ({ message }) => hear({ error: message ?? "no reason given" }, worker);
  return worker;
}
