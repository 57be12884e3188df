import type { Operation } from "./call.ts";
import { empty } from "./responses.ts";

/** That it is there, and the caller's, was seen when the request was let in. */
export const headBucket: Operation = async (_call, { region }) => empty(200, [["x-amz-bucket-region", region]]);
