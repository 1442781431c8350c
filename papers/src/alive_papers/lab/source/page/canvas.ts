// A canvas as sharp as the screen, and as wide as the page lets it be.

export interface Sheet {
  readonly pen: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;
}

/** The canvas cleared, in units of the page; null while it is not shown. */
export function sheet(canvas: HTMLCanvasElement, height?: number): Sheet | null {
  const width = canvas.clientWidth;
  if (!width) return null;
  const high = height ?? width;
  if (canvas.style.height !== `${high}px`) canvas.style.height = `${high}px`;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(high * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d")!;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, high);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height: high };
}
