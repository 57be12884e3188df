export { combineCrc32, combineCrc32c, combineCrc64nvme } from "./combine.ts";
export { crc32, crc32c } from "./crc.ts";
export { crc64nvme } from "./crc64.ts";
export { crcStream, type CrcAlgorithm, type CrcStream } from "./stream.ts";
