export { freeAddress } from "./free-address.ts";
export { MountedDisk } from "./mounted-disk.ts";
