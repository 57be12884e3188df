export { freeAddress } from "./free-address.ts";
export { MountedDisk } from "./mounted-disk.ts";
export { StartingProgram, type LogLine } from "./starting-program.ts";
