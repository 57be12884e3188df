// Loaded into every node before its program: when the process that started it is gone, however it ended, the node drains itself.
const DRAIN_MS_MAX = 15_000;

process.once("disconnect", () => {
  process.kill(process.pid, "SIGTERM");
  setTimeout(() => process.kill(process.pid, "SIGKILL"), DRAIN_MS_MAX).unref();
});
// The channel to the parent is no reason to live on.
process.channel?.unref();
