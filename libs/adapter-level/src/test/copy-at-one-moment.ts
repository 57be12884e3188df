import { cp, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/** Copies the files of a store that works until no name and no size changed meanwhile: a compaction in the background makes and removes tables. */
export async function copyAtOneMoment(from: string, to: string, filter: (path: string) => boolean = () => true): Promise<void> {
  const filesNow = async (): Promise<string> => {
    const sizeOf = (name: string): Promise<string> =>
      stat(join(from, name)).then(
        ({ size }) => `${name} ${size}`,
        () => `${name} gone`,
      );
    return (await Promise.all((await readdir(from)).sort().map(sizeOf))).join();
  };
  for (;;) {
    const before = await filesNow();
    const isWhole = await cp(from, to, { recursive: true, filter }).then(() => true, isGone);
    if (isWhole && (await filesNow()) === before) return;
    await rm(to, { recursive: true, force: true });
  }
}

/** False: a file went while it was copied. Throws anything else. */
function isGone(thrown: unknown): boolean {
  if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return false;
  throw thrown;
}
