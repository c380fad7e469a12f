// Rows or columns that are one stop of the Tab key; keys go from one to the next.

/** Move the focus to another of the stops, where a key says so: key → place. */
export function moveTo(event: KeyboardEvent, stops: readonly (HTMLElement | SVGElement)[], places: (at: number) => Record<string, number>): void {
  const at = stops.indexOf(event.target as HTMLElement);
  const to = at < 0 ? undefined : places(at)[event.key];
  const next = to === undefined ? undefined : stops[to];
  if (!next) return;
  event.preventDefault();
  stops[at]!.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

/** Rows or columns side by side: keys go to the neighbours, the first and the last. */
export function moveAlong(event: KeyboardEvent, stops: readonly (HTMLElement | SVGElement)[], back = "ArrowUp", on = "ArrowDown"): void {
  moveTo(event, stops, (at) => ({ [back]: at - 1, [on]: at + 1, Home: 0, End: stops.length - 1 }));
}
