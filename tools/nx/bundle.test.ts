// Modules that run as threads are known to bundles by the call that starts them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { threadsIn } from "./bundle.ts";

test("bundle: a module that is named by its URL in another way than a thread's: refused, since packages would lack it", () => {
  assert.deepEqual(threadsIn('new Worker(new URL("beats.ts", import.meta.url), {})', "a.ts"), ["beats"]);
  assert.deepEqual(threadsIn('new URL("page.html", import.meta.url)', "a.ts"), []);
  assert.throws(() => threadsIn('const program = new URL("beats.ts", import.meta.url);', "a.ts"), /a\.ts: a thread is started by/);
});
