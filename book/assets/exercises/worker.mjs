// Python, away from the page: it may loop for ever there, and the page ends it.
//
// in: {base, version, source} with exercise or listing, a name; or {base, version} to start only.
// out: {share} while Python loads, {ready}, then {report}; or {error}.
let python;

onmessage = async ({ data: { base, version, exercise, listing, source } }) => {
  try {
    python ??= import(`${base}live.mjs?v=${version}`).then(({ start }) =>
      start({ base, version, progress: (share) => postMessage({ share }) }),
    );
    const { run, tryOut } = await python;
    postMessage({ ready: true });
    if (exercise) postMessage({ report: await run(exercise, source, null) });
    if (listing) postMessage({ report: await tryOut(listing, source) });
  } catch (error) {
    python = undefined;
    postMessage({ error: String(error?.message ?? error) });
  }
};
