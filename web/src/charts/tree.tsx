// A table whose rows unfold into their parts, as a tree grid.
import { useMemo, useState } from "preact/hooks";

import { UNKNOWN } from "../format";
import { lastPart, Name } from "../parts/name";
import { Head } from "./twin";

export interface TreeNode {
  id: number;
  parent: number | null;
  name: string;
  cells: string[];
}

interface Props {
  label: string;
  nodes: TreeNode[];
  head: string[];
  onChoose?: (name: string) => void;
}

/** So many levels are open at first. */
const OPEN_LEVELS = 1;
const MOST_ROWS = 1000;

export function Tree({ label, nodes, head, onChoose }: Props) {
  // A column without a number in any row says nothing.
  const told = head.map((_, k) => k).filter((k) => nodes.some((node) => node.cells[k] !== UNKNOWN));
  const numbers = told.map((k) => head[k]!);
  const [toggled, toggle] = useState<ReadonlySet<number>>(new Set());
  const children = useMemo(() => byParent(nodes), [nodes]);
  const isOpen = (id: number, level: number) => level < OPEN_LEVELS !== toggled.has(id);
  const rows: { node: TreeNode; level: number; parts: boolean }[] = [];
  const walk = (parent: number | null, level: number): void => {
    for (const node of children.get(parent) ?? []) {
      const parts = children.has(node.id);
      rows.push({ node, level, parts });
      if (parts && isOpen(node.id, level)) walk(node.id, level + 1);
    }
  };
  walk(null, 0);
  const flip = (id: number) => {
    const next = new Set(toggled);
    if (!next.delete(id)) next.add(id);
    toggle(next);
  };
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={`${label}, scrolls`}>
      <table role="treegrid" aria-label={label}>
        <Head of={["Name", ...numbers]} numbers={numbers} />
        <tbody>
          {rows.slice(0, MOST_ROWS).map(({ node, level, parts }) => (
            <tr
              key={node.id}
              role="row"
              aria-level={level + 1}
              aria-expanded={parts ? isOpen(node.id, level) : undefined}
            >
              <th scope="row" title={node.name} style={{ "--level": level }}>
                {parts ? (
                  <button class="link" aria-label={`${isOpen(node.id, level) ? "Fold" : "Unfold"} ${node.name}`} onClick={() => flip(node.id)}>
                    {isOpen(node.id, level) ? "▾" : "▸"}
                  </button>
                ) : (
                  <span class="leaf" />
                )}{" "}
                {onChoose ? <button class="link" aria-label={node.name} onClick={() => onChoose(node.name)}>{called(node, level)}</button> : <span>{called(node, level)}</span>}
              </th>
              {told.map((k) => (
                <td key={k} class="number">{node.cells[k]}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && <p>The first {MOST_ROWS} rows are shown; the table has all.</p>}
    </div>
  );
}

const called = ({ name }: TreeNode, level: number) => <Name text={level > 0 ? lastPart(name) : name} />;

/** Children of each node; those whose parent is filtered out are roots. */
export function byParent<T extends { id: number; parent: number | null }>(nodes: T[]): Map<number | null, T[]> {
  const known = new Set<number | null>(nodes.map((node) => node.id));
  return Map.groupBy(nodes, ({ parent }) => (known.has(parent) ? parent : null));
}
