// A snapshot of all that a Postgres in WASM is between two calls: its memory, its files and those that it has open; and the return to one, in place:
// Postgres has its addresses in the memory, and Emscripten its own references to nodes and streams.

/** The whole state of the database and its process. It fits only the SimulatedPostgres that it was taken from. */
export interface Snapshot {
  /** The parts of the memory that are not zero, by their place. */
  readonly memory: ReadonlyMap<number, Uint8Array>;
  readonly nodes: ReadonlyMap<FsNode, NodeImage>;
  readonly streams: readonly (StreamImage | null | undefined)[];
  readonly names: readonly (FsNode | undefined)[];
  readonly nextInode: number;
}

/** A file, folder or device of Emscripten's file system in memory. */
interface FsNode {
  readonly mode: number;
  contents?: Uint8Array | Record<string, FsNode>;
  usedBytes?: number;
  name_next?: FsNode;
}

interface NodeImage {
  readonly fields: object;
  readonly children?: Readonly<Record<string, FsNode>>;
  readonly bytes?: Uint8Array;
}

interface StreamImage {
  readonly stream: { readonly node?: FsNode; readonly shared: object };
  readonly fields: object;
  readonly shared: object;
}

/** What the simulation uses of PGlite's Emscripten module. The package has types for a part of it only. */
export interface Wasm {
  readonly HEAPU8: Uint8Array;
  preRun: ((wasm: Wasm) => void)[];
  readonly FS: {
    readonly root: FsNode;
    /** A hash table: each entry is the first of a list that goes on with `name_next`. */
    readonly nameTable: (FsNode | undefined)[];
    readonly streams: (StreamImage["stream"] | null | undefined)[];
    nextInode: number;
    isDir(mode: number): boolean;
    isFile(mode: number): boolean;
    unlink(path: string): void;
    createDevice(folder: string, name: string, input: () => number): void;
  };
}

const PAGE = 65_536;
const EMPTY_PAGE = Buffer.alloc(PAGE);

/** All that the process of Postgres is between two calls: its memory, its files, and those that it has open. Its stack is empty then. */
export function imageOf({ HEAPU8, FS }: Wasm, before: Snapshot | undefined): Snapshot {
  const memory = new Map<number, Uint8Array>();
  for (let at = 0; at < HEAPU8.length; at += PAGE) {
    const page = HEAPU8.subarray(at, at + PAGE);
    if (EMPTY_PAGE.compare(page) !== 0) memory.set(at, kept(page, before?.memory.get(at)));
  }
  const nodes = new Map<FsNode, NodeImage>();
  const visit = (node: FsNode) => {
    if (nodes.has(node)) return;
    const children = FS.isDir(node.mode) ? { ...(node.contents as Record<string, FsNode>) } : undefined;
    const bytes = FS.isFile(node.mode) ? kept(bytesOf(node), before?.nodes.get(node)?.bytes) : undefined;
    nodes.set(node, { fields: { ...node }, ...(children && { children }), ...(bytes && { bytes }) });
    for (const child of Object.values(children ?? {})) visit(child);
  };
  visit(FS.root);
  for (const first of FS.nameTable) for (let node = first; node; node = node.name_next) visit(node);
  const streams = FS.streams.map((stream) => {
    if (!stream) return stream;
    // It may be of a file that is deleted already.
    if (stream.node) visit(stream.node);
    return { stream, fields: { ...stream }, shared: { ...stream.shared } };
  });
  return { memory, nodes, streams, names: [...FS.nameTable], nextInode: FS.nextInode };
}

/** Of some files it is an Int8Array. */
const bytesOf = ({ contents, usedBytes }: FsNode) =>
  new Uint8Array((contents as Uint8Array).buffer, (contents as Uint8Array).byteOffset, usedBytes);

/** Most is as it was before: to compare costs less than to copy. */
const kept = (now: Uint8Array, before?: Uint8Array) =>
  before && Buffer.compare(now, before) === 0 ? before : now.slice();

/** All in place: Postgres has its addresses in the memory, and Emscripten its own references to nodes and streams. */
export function returnTo({ HEAPU8, FS }: Wasm, snapshot: Snapshot): void {
  let end = 0;
  for (const [at, page] of snapshot.memory) {
    HEAPU8.fill(0, end, at);
    HEAPU8.set(page, at);
    end = at + page.length;
  }
  HEAPU8.fill(0, end);
  for (const [node, { fields, children, bytes }] of snapshot.nodes) {
    const now = node.contents;
    Object.assign(node, fields);
    if (children) node.contents = { ...children };
    if (bytes) node.contents = filled(now as Uint8Array, bytes);
  }
  FS.streams.length = 0;
  for (const image of snapshot.streams) {
    if (image) Object.assign(image.stream, image.fields);
    if (image) Object.assign(image.stream.shared, image.shared);
    FS.streams.push(image?.stream);
  }
  FS.nameTable.splice(0, FS.nameTable.length, ...snapshot.names);
  FS.nextInode = snapshot.nextInode;
}

/** The bytes in the room that a file has now, if it is enough. What follows them is zero: Postgres may leave a gap as it writes. */
function filled(room: Uint8Array, bytes: Uint8Array): Uint8Array {
  if (room.length < bytes.length) return bytes.slice();
  room.set(bytes);
  return room.fill(0, bytes.length);
}
