// A directed graph, laid out by dagre; nodes are what the caller draws.
import dagre from "@dagrejs/dagre";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface Node {
  id: string;
  /** Class of its outline. */
  kind: string;
  body: ComponentChildren;
}

interface Props {
  label: string;
  nodes: Node[];
  edges: { from: string; to: string }[];
  /** The node that is seen first, where not all fit. */
  start?: string | undefined;
  onChoose?: (id: string) => void;
}

const WIDTH = 186;
const HEIGHT = 118;
const MARGIN = 8;

export function Graph({ label, nodes, edges, start, onChoose }: Props) {
  const placed = layout(nodes, edges);
  const place = useRef<HTMLDivElement>(null);
  const first = nodes.find((node) => node.id === start);
  useEffect(() => {
    if (first) place.current!.scrollTo(placed.at(first.id).x - WIDTH / 2 - MARGIN, placed.at(first.id).y - HEIGHT);
  }, [first?.id]);
  return (
    <div ref={place} class="graph" role="group" aria-label={label} tabIndex={0}>
      <svg
        width={placed.width}
        height={placed.height}
        viewBox={`0 0 ${placed.width} ${placed.height}`}
      >
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
            <path d="M0 0L8 4L0 8Z" class="tip" />
          </marker>
        </defs>
        {placed.paths.map((path, index) => (
          <path key={index} class="edge" d={path} marker-end="url(#tip)" />
        ))}
        {nodes.map((node) => {
          const { x, y } = placed.at(node.id);
          return (
            <foreignObject
              key={node.id}
              x={x - WIDTH / 2}
              y={y - HEIGHT / 2}
              width={WIDTH}
              height={HEIGHT}
            >
              <button class={`node ${node.kind}`} onClick={() => onChoose?.(node.id)}>
                {node.body}
              </button>
            </foreignObject>
          );
        })}
      </svg>
    </div>
  );
}

function layout(nodes: Node[], edges: { from: string; to: string }[]) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 24, ranksep: 32, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of nodes) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { from, to } of edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    at: (id: string) => graph.node(id) as { x: number; y: number },
    paths: graph.edges().map((edge) => {
      const { points } = graph.edge(edge) as { points: { x: number; y: number }[] };
      return `M${points.map(({ x, y }) => `${x} ${y}`).join("L")}`;
    }),
  };
}
