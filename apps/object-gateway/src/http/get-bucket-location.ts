import { locationXml } from "@concord/s3";
import type { Operation } from "./call.ts";
import { xml } from "./responses.ts";

export const getBucketLocation: Operation = async (_call, { region }) => xml(locationXml(region));
