// A dialog that opens when it appears; what is in it may close it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  class?: string;
  onClose: () => void;
  children: ComponentChildren | ((close: () => void) => ComponentChildren);
}

export function Dialog({ label, onClose, children, ...props }: Props) {
  const place = useRef<HTMLDialogElement>(null);
  useEffect(() => place.current!.showModal(), []);
  return (
    <dialog ref={place} class={props.class} aria-label={label} onClose={onClose}>
      {typeof children === "function" ? children(() => place.current?.close()) : children}
    </dialog>
  );
}
