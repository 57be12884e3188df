export { openLevel } from "./level-key-value.ts";
