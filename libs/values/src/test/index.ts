export { anyValue, VALUES } from "./arbitraries.ts";
export { LITERALS, refusedMessages } from "./edges.ts";
export { rowOfEveryType, SAMPLES, sampleCells, type Sample } from "./samples.ts";
