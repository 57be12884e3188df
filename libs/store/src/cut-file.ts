import { ConcordError, type Disk } from "@concord/runtime";

/** Empty; it is there from before a cut of the journal's end until what the cut may have taken is there again (I8). */
const NAME = "cut";

export async function hasCutFile(disk: Disk, folder: string): Promise<boolean> {
  const file = await disk.open(`${folder}/${NAME}`);
  await file?.close();
  return file !== undefined;
}

export async function makeCutFile(disk: Disk, folder: string): Promise<void> {
  const path = `${folder}/${NAME}`;
  const file = await disk.create(path);
  // What an earlier cut left may not be durable yet: its name is synced either way.
  if (file !== "exists") await file.close();
  else if (!(await hasCutFile(disk, folder))) throw new ConcordError("STORE_FAILED", `${path} cannot be made`, { applied: "no" });
  await disk.syncFolder(folder);
}

export async function removeCutFile(disk: Disk, folder: string): Promise<void> {
  await disk.remove(`${folder}/${NAME}`);
  await disk.syncFolder(folder);
}
