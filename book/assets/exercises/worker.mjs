// Python, away from the page: it may loop for ever there, and the page ends it.
//
// in: {base, version, exercise, source}, or {base, version} to start only.
// out: {share} while Python loads, {ready}, then {report}; or {error}.
let python;

onmessage = async ({ data: { base, version, exercise, source } }) => {
  try {
    python ??= import(`${base}live.mjs?v=${version}`).then(({ start }) =>
      start({ base, version, progress: (share) => postMessage({ share }) }),
    );
    const { run } = await python;
    postMessage({ ready: true });
    if (exercise) postMessage({ report: await run(exercise, source, null) });
  } catch (error) {
    python = undefined;
    postMessage({ error: String(error?.message ?? error) });
  }
};
