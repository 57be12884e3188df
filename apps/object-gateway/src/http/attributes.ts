import { REDIRECT_HEADER, type ObjectAttributes } from "@concord/objects";
import { checkRedirectLocation, readAttributes, S3Error, type Fields } from "@concord/s3";

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/;

/**
 * What is stored with an object. Metadata may come from the query of a presigned request, which can hold what no header can: an object
 * that could be stored with it could never be sent again.
 */
export function attributesOf(headers: Fields): ObjectAttributes {
  const attributes = readAttributes(headers);
  const metadata = Object.entries(attributes.metadata).map(([name, value]) => {
    if (!NAME.test(name) || CONTROL.test(value)) throw new S3Error("InvalidArgument", `x-amz-meta-${name.slice(0, 64)} is no header`);
    return [name, headerText(value)] as const;
  });
  return { ...attributes, headers: { ...attributes.headers, ...redirectOf(headers) }, metadata: Object.fromEntries(metadata) };
}

/** InvalidRedirectLocation. */
function redirectOf(headers: Fields): Readonly<Record<string, string>> {
  const sent = headers.one(REDIRECT_HEADER);
  if (sent === undefined || sent === "") return {};
  const location = headerText(sent);
  checkRedirectLocation(location);
  return { [REDIRECT_HEADER]: location };
}

/** Headers are bytes, one character each: what has others is sent as the bytes of its UTF-8. */
function headerText(value: string): string {
  return /[\u0100-\uffff]/.test(value) ? Buffer.from(value).toString("latin1") : value;
}
