export { combineCrc32, combineCrc32c, combineCrc64nvme } from "./combine.ts";
export { crc32, crc32c, crc64nvme } from "./crc.ts";
export { crcStream, type CrcAlgorithm, type CrcStream } from "./stream.ts";
