// The account of the mean step: the owners of its time under their category, and by name.
import { CATEGORIES, type Category } from "../data/made/categories";
import type { AccountEntry, AccountPart } from "../data/made/types";
import { OWNERS, PART_WORDS } from "../data/made/words";
import { decimals, number, percent } from "../format";
import { useFirst } from "../parts/more";
import { deviceName } from "../parts/name";
import { Pick } from "../parts/pick";
import { change, state } from "../state/url";
import { Hatches, paint, Swatch } from "./categories";

/** Parts of an owner that are shown before the others are asked for. */
const FIRST = 5;

export function Account({ entries, each: whole }: { entries: AccountEntry[]; each: string }) {
  const devices = [...new Set(entries.map(keyOf))];
  const chosen = devices.find((each) => each === state.value.dev) ?? devices[0];
  const mine = entries.filter((each) => keyOf(each) === chosen);
  // One column of numbers: all have the decimals that the largest category needs.
  const owned = CATEGORIES.map(({ name }) => time(mine.filter((each) => each.category === name)));
  const digits = decimals(Math.max(...owned, 0));
  const traced = mine.some(({ parts }) => parts?.some((part) => part.function !== null || part.file !== null));
  return (
    <section class="panel" aria-label="Account of the step">
      <Hatches />
      <h2>Time by cause and name</h2>
      <p>Times are self times: they exclude inner calls.</p>
      {devices.length > 1 && (
        <p>
          <Pick
            label="Device"
            value={chosen}
            of={Object.fromEntries(devices.map((key) => [key, deviceName(entries.find((each) => keyOf(each) === key)!)]))}
            onPick={(dev) => change({ dev })}
          />
        </p>
      )}
      <div class="scroll whole">
        <table class="account">
          <thead>
            <tr>
              <th scope="col">Cause and name</th>
              {traced ? <th class="beside" scope="col">Function</th> : <td class="beside" />}
              {["Time", `Share of the ${whole}`].map((text) => (
                <th key={text} scope="col" class="number">{text}</th>
              ))}
            </tr>
          </thead>
          {CATEGORIES.map((category) => [category, mine.filter((each) => each.category === category.name)] as const)
            .filter(([, owners]) => owners.length > 0)
            .sort(([, a], [, b]) => time(b) - time(a))
            .map(([category, owners]) => (
              <tbody key={category.name} data-category={category.name}>
                <tr class="category">
                  <th scope="rowgroup" title={category.sentence}>
                    <Swatch category={category} /> {category.title}
                  </th>
                  <td class="beside" />
                  <Size ms={time(owners)} percent={sum(owners, (each) => each.percent)} digits={digits} />
                </tr>
                {owners.map((each) => (
                  <Owner key={each.owner} entry={each} category={category} digits={digits} />
                ))}
              </tbody>
            ))}
        </table>
      </div>
    </section>
  );
}

const keyOf = (of: AccountEntry) => `${of.host}:${of.device ?? "host"}`;
const sum = <T,>(all: T[], value: (one: T) => number) => all.reduce((whole, one) => whole + value(one), 0);
const time = (owners: AccountEntry[]) => sum(owners, (each) => each.ms);

function Owner({ entry, category, digits }: { entry: AccountEntry; category: Category; digits: number }) {
  const parts = entry.parts ?? [];
  // A single part without a name repeats its owner.
  const [told, more] = useFirst(parts.every((part) => part.name === null) ? [] : parts, FIRST);
  return (
    <>
      <tr data-owner={entry.owner}>
        <th scope="row">{OWNERS[entry.owner] ?? entry.owner}{placed(entry, digits)}</th>
        <td class="beside">
          <svg class="length" aria-hidden="true">
            <rect width={`${entry.percent}%`} height="10" {...paint(category)} />
          </svg>
        </td>
        <Size ms={entry.ms} percent={entry.percent} digits={digits} />
      </tr>
      {told.map((part, index) => (
        <Part key={index} part={part} owner={entry.owner} share={entry.ms ? (entry.percent * part.ms) / entry.ms : null} digits={digits} />
      ))}
      {more && <tr class="part"><td colSpan={4}>{more}</td></tr>}
    </>
  );
}

/** How much of an owner's time lies between steps, where some does. */
function placed(entry: AccountEntry, digits: number): string {
  if (!entry.between_ms || entry.owner === "between") return "";
  return entry.between_ms >= entry.ms ? ", between steps" : `, of which ${number(entry.between_ms, digits)} ms between steps`;
}

function Part({ part, owner, share, digits }: { part: AccountPart; owner: string; share: number | null; digits: number }) {
  return (
    <tr class="part" data-part={part.name ?? ""}>
      <td>{named(part)}{part.place === "between" && owner !== "between" && ", between steps"}</td>
      <td class="beside" title={part.file ?? undefined}>
        {part.function !== null && <code>{part.function}</code>} {source(part)}
      </td>
      <Size ms={part.ms} percent={share} digits={digits} />
    </tr>
  );
}

function named(part: AccountPart): string {
  if (part.name === null) return "without a name";
  const before = part.detail === null ? undefined : PART_WORDS[part.detail];
  if (before) return `${before} ${part.name}`;
  return part.detail === null ? part.name : `${part.name}, most of it in ${part.detail}`;
}

/** The file without its folders, and the line. */
function source(part: AccountPart): string {
  if (part.file === null) return "";
  const name = part.file.split(/[\\/]/).pop();
  return part.line === null ? `${name}` : `${name}:${part.line}`;
}

function Size(props: { ms: number; percent: number | null; digits: number }) {
  return (
    <>
      <td class="number" title={String(props.ms)}>{number(props.ms, props.digits)} ms</td>
      <td class="number" title={props.percent === null ? undefined : String(props.percent)}>
        {percent(props.percent)}
      </td>
    </>
  );
}
