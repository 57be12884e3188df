import { ConcordError } from "@concord/runtime";
import type { HighWaterMark } from "../index.ts";

/** What a raise does next: works, fails before or after it is on disk, or is refused because the worker id belongs to another source. */
export type RaisePlan = "works" | "fails-before" | "fails-after" | "fenced";

/** A mark on a disk of its own that outlives the sources opened on it. */
export class TestMark implements HighWaterMark {
  valueMs: number | undefined;
  plan: RaisePlan = "works";
  raises = 0;

  async load(): Promise<number | undefined> {
    return this.valueMs;
  }

  async raise(toMs: number): Promise<void> {
    this.raises += 1;
    if (this.plan === "fenced") throw new ConcordError("EPOCH_FENCED", "another owner");
    if (this.plan === "fails-before") throw new ConcordError("STORE_FAILED", "not written");
    this.valueMs = toMs;
    if (this.plan === "fails-after") throw new ConcordError("STORE_FAILED", "written, but the answer was lost");
  }
}
