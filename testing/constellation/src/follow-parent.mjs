// Loaded into every node before its program: when the process that started it is gone, however it ended, the node drains itself.
const DRAIN_MS_MAX = 15_000;

process.once("disconnect", () => {
  process.kill(process.pid, "SIGTERM");
  setTimeout(() => process.kill(process.pid, "SIGKILL"), DRAIN_MS_MAX).unref();
});
// The channel to the parent is no reason to live on.
process.channel?.unref();
// Only for this process: what it forks waits for work on its own channel, and must not end meanwhile.
const own = process.execArgv.indexOf(import.meta.url);
if (own > 0) process.execArgv.splice(own - 1, 2);
