// A process without a free descriptor: prints what a disk answers then. Run with a low limit of open files.
import { openSync } from "node:fs";
import { devNull } from "node:os";
import { nodeDisk } from "../index.ts";

const disk = nodeDisk(process.argv[2]!);
const eaten: number[] = [];
/** Takes every descriptor that is free. */
function eat(): void {
  try {
    for (;;) eaten.push(openSync(devNull, "r"));
  } catch {
    // None is left.
  }
}

const answers: string[] = [];
eat();
const file = await disk.create("a");
answers.push(file === "exists" ? file : "created");
if (file === "exists") throw new Error("the folder is empty");
await file.writeSynced(0, [Uint8Array.of(1)]);
await disk.syncFolder("");
answers.push(...(await disk.list("")).map(({ name }) => name));
eat();
const opened = await disk.open("a").then(
  () => "opened",
  ({ code, applied }: { code: string; applied: string }) => `${code}/${applied}`,
);
console.log(JSON.stringify([...answers, opened, eaten.length > 0]));
