// Exit code 0 when the process of this container answers 200. `node healthcheck.js [PATH]`: /healthz when not given, /readyz for "takes calls".
const { CONCORD_ADMIN_ADDRESS = "0.0.0.0:7110" } = process.env;
const port = CONCORD_ADMIN_ADDRESS.slice(CONCORD_ADMIN_ADDRESS.lastIndexOf(":") + 1);
try {
  const answer = await fetch(`http://127.0.0.1:${port}${process.argv[2] ?? "/healthz"}`, { signal: AbortSignal.timeout(4_000) });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
} catch (error) {
  console.error(String(error.cause ?? error));
  process.exitCode = 1;
}
