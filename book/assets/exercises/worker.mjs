// Python, away from the page: it may loop for ever there, and the page ends it.
//
// in: {base, version, source} with exercise or listing, a name; {base, version, ask} from the workbench;
// or {base, version} to start only. out: {share} while Python loads, {ready}, then {report} or
// {answered}; or {error}.
let python;

onmessage = async ({ data: { base, version, exercise, listing, source, ask } }) => {
  try {
    python ??= import(`${base}live.mjs?v=${version}`).then(({ start }) =>
      start({ base, version, progress: (share) => postMessage({ share }) }),
    );
    const { run, tryOut, bench } = await python;
    postMessage({ ready: true });
    if (ask) postMessage({ answered: await bench(ask) });
    if (exercise) postMessage({ report: await run(exercise, source, null) });
    if (listing) postMessage({ report: await tryOut(listing, source) });
  } catch (error) {
    python = undefined;
    postMessage({ error: String(error?.message ?? error) });
  }
};
