// What is said first of a profile.
import type { Answer } from "../data/client";
import type { FindingsAnswer } from "../data/findings";
import { link, page } from "../state/url";
import { Show } from "./unavailable";

export function Headline({ answer }: { answer: Answer<FindingsAnswer> }) {
  return (
    <Show answer={answer}>
      {({ headline }) => (
        <section class="headline" aria-label="Headline">
          <p class="verdict" data-owner={headline.owner} data-finding={headline.finding}>
            {headline.text}
          </p>
          {headline.finding && page.value !== "findings" && (
            <a href={link({ page: "findings" })}>What it rests on, and what to change</a>
          )}
        </section>
      )}
    </Show>
  );
}
