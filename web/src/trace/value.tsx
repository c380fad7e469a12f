// The value of a counter at a time that was chosen.
import { useEffect, useState } from "preact/hooks";

import { moment } from "../format";
import { Fact } from "../parts/fact";
import { amount, readingText, type Reading } from "../timeline/counters";
import { said, type Choice } from "./chosen";
import type { Control } from "./control";
import { Time } from "./span";

export function CounterValue({ of, control }: { of: Extract<Choice, { kind: "counter" }>; control: Control }) {
  const [held, hold] = useState<{ track: number; at: number; reading: Reading | null } | null>(null);
  const track = control.scene.catalogue.tracks[of.track];
  useEffect(() => {
    if (!track?.counter) return undefined;
    const stop = new AbortController();
    control.reading(of.track, of.at, stop.signal).then(
      (reading) => {
        hold({ track: of.track, at: of.at, reading });
        said.value = `${track.name}: ${reading ? readingText(reading, track.unit ?? "") : NO_VALUE}`;
      },
      (error: Error) => stop.signal.aborted || (said.value = error.message),
    );
    return () => stop.abort();
  }, [control, of.track, of.at]);
  // The panel takes room of the lanes: the counter stays in sight.
  useEffect(() => void (held && control.show(held.track)), [control, held]);
  if (!track?.counter || held?.track !== of.track || held.at !== of.at) return null;
  const { reading } = held;
  const unit = track.unit ?? "";
  return (
    <>
      <header>
        <h2>{track.name}</h2>
        <span class="tools"><button title="Key M" onClick={() => control.mark()}>Mark</button></span>
      </header>
      <dl class="facts">
        <Fact name="Value">{reading ? <span data-value={reading.most}>{readingText(reading, unit)}</span> : NO_VALUE}</Fact>
        <Time name="At" ps={of.at} written={moment} />
        {reading && <Time name="Set at" ps={reading.since} written={moment} />}
        <Fact name="Least">{amount(track.least ?? 0, unit)}</Fact>
        <Fact name="Greatest">{amount(track.greatest ?? 0, unit)}</Fact>
      </dl>
    </>
  );
}

const NO_VALUE = "no value before this time";
