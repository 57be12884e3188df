export { anyValue, VALUES } from "./arbitraries.ts";
export { rowOfEveryType, SAMPLES, sampleCells, type Sample } from "./samples.ts";
