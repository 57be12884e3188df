// Another process that reserves ports: sends them and keeps them until it is killed.
import { reservePorts } from "../ports.ts";

const [count, times] = process.argv.slice(2).map(Number);
const reserved = await Promise.all(Array.from({ length: times! }, () => reservePorts(count!)));
// Nothing else keeps a process without work alive.
process.channel!.ref();
process.send!(reserved.flatMap(({ ports }) => ports));
