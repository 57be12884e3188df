import type { WindowStores } from "@concord/dedup";
import type { KeyValue } from "@concord/ports";
import type { Disk } from "@concord/runtime";

/** A partition's window as stores in a folder of their own, one folder each. */
export function folderStores(disk: Disk, folder: string, openKeyValue: (folder: string) => Promise<KeyValue>): WindowStores {
  return {
    async open(name) {
      await disk.makeFolder(folder);
      return openKeyValue(`${folder}/${name}`);
    },
    remove: (name) => removeFolder(disk, `${folder}/${name}`),
    list: async () => (await disk.list(folder)).flatMap(({ name, kind }) => (kind === "folder" ? [name] : [])),
  };
}

async function removeFolder(disk: Disk, folder: string): Promise<void> {
  for (const { name, kind } of await disk.list(folder)) {
    const path = `${folder}/${name}`;
    await (kind === "folder" ? removeFolder(disk, path) : disk.remove(path));
  }
  await disk.remove(folder);
}
