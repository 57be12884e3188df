// One operation of the S3 API reference: how a request for it looks by hand, what an SDK is given, what the answer says.

/** What calls learn and later calls name: in a raw request as {bucket}, in an SDK's input as a member of this. */
export type World = Readonly<Record<Name, string>>;
export type Name = "bucket" | "spare" | "uploadId" | "etag" | "versionId" | "tenant";

export interface Learned {
  readonly as: Name;
  /** Of an SDK's output. */
  readonly member: string;
  /** Of the headers and the body of an answer. */
  readonly raw: RegExp;
}

export interface OperationCase {
  readonly group: Group;
  readonly name: string;
  /** "PUT /{bucket}?acl" */
  readonly request: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Beside bucket and key. */
  readonly input: (world: World) => object;
  /** What the answer must name, when it is a success. */
  readonly says: RegExp;
  readonly learns: Learned | undefined;
  /** Beside NotImplemented, refusals that are right: nothing was set ("404 NoSuchWebsiteConfiguration"), or the operation is of another service. */
  readonly refusals: readonly string[];
  /** No SDK has a command for it. */
  readonly rawOnly: boolean;
  /** Sent as a form that is signed by its policy. */
  readonly form: boolean;
}

export type Group =
  | "buckets"
  | "objects"
  | "multipart uploads"
  | "versions"
  | "lists"
  | "tags"
  | "access: policies, ACLs, ownership"
  | "CORS and browser forms"
  | "lifecycle"
  | "encryption"
  | "object lock"
  | "event notifications"
  | "static websites"
  | "other settings of buckets"
  | "metadata tables, annotations, attribute-based access"
  | "directory buckets, archives, queries";

type More = Partial<Omit<OperationCase, "group" | "name" | "request" | "input">> & {
  readonly input?: object | ((world: World) => object);
};

export function operation(group: Group, name: string, request: string, more: More = {}): OperationCase {
  const { input } = more;
  const standard = { headers: {}, body: "", says: /(?:)/, learns: undefined, refusals: [], rawOnly: false, form: false };
  return { ...standard, ...more, group, name, request, input: typeof input === "function" ? (world) => input(world) : () => input ?? {} };
}

export const fill = (text: string, world: World): string =>
  text.replace(/\{(\w+)\}/g, (whole, name: string) => world[name as Name] ?? whole);
