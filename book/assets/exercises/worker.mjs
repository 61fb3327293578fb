// Python, away from the page: it may loop for ever there, and the page ends it.
//
// in: {exercise, source}; out: {share} while Python loads, {report} or {error}.
let python;

onmessage = async ({ data: { base, exercise, source } }) => {
  try {
    python ??= import(`${base}live.mjs`).then(({ start }) =>
      start({ base, progress: (share) => postMessage({ share }) }),
    );
    postMessage({ started: true, report: await (await python).run(exercise, source, null) });
  } catch (error) {
    python = undefined;
    postMessage({ error: String(error?.message ?? error) });
  }
};
