// Column frames: a table as bytes, viewed without copying (`serve/frames.py` writes them).

export type Values =
  | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | Float32Array | Float64Array | BigInt64Array;

export interface Frame {
  meta: Record<string, unknown>;
  /** Number of rows. */
  length: number;
  /** What the ids of texts mean. */
  names: string[];
  columns: Map<string, Values>;
}

interface Described {
  name: string;
  type: string;
  offset: number;
  bytes: number;
}

const VIEWS: Record<string, { new (buffer: ArrayBuffer, offset: number, length: number): Values; BYTES_PER_ELEMENT: number }> = {
  i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array,
  u4: Uint32Array, f4: Float32Array, f8: Float64Array, i8: BigInt64Array,
  text: Uint32Array, bool: Uint8Array,
};

/** Read a frame; throws where the bytes are none. */
export function decode(bytes: ArrayBuffer): Frame {
  const length = new DataView(bytes).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as {
    meta: Record<string, unknown>;
    length: number;
    names: string[];
    columns: Described[];
  };
  const columns = new Map<string, Values>();
  for (const { name, type, offset, bytes: size } of header.columns) {
    const View = VIEWS[type];
    if (!View) throw new Error(`column ${name} has the unknown type ${type}`);
    columns.set(name, new View(bytes, offset, size / View.BYTES_PER_ELEMENT));
  }
  return { meta: header.meta, length: header.length, names: header.names, columns };
}

/** A column as numbers: whatever its type, a view is taken and nothing is copied. */
export function numbers<T extends Values>(frame: Frame, name: string): T {
  const found = frame.columns.get(name);
  if (!found) throw new Error(`the frame has no column ${name}`);
  return found as T;
}
