// Five runs worth seeing, each with its sentence; every one is an address.

export interface Preset {
  readonly name: string;
  readonly title: string;
  readonly sentence: string;
  readonly link: string;
}

const FIFTY = "data=moons&depth=50&width=4&activation=relu&rate=0.01&weight=1&optimiser=adam";

/** What the page opens on, and trains at once. */
export const OPENING: Preset = {
  name: "opening",
  title: "Learning",
  sentence:
    "This network is learning now: fifty layers of four units, to tell two half moons apart. It begins with nearly every unit dead; the penalty Sep-UP brings them to life. Press “Born dead” to see the same network without it.",
  link: `${FIFTY}&start=glorot&method=sep-up&seed=10&epoch=0`,
};

export const PRESETS: readonly Preset[] = [
  {
    name: "born-dead",
    title: "Born dead",
    sentence:
      "Fifty layers of four units, Glorot start: before the first step every point has been mapped to zeros, so no gradient comes back: training moves the bias of the output, and nothing else.",
    link: `${FIFTY}&start=glorot&method=none&seed=10&epoch=0`,
  },
  {
    name: "a-unit-dies",
    title: "A unit dies at step 214",
    sentence:
      "Ten layers that learn, at a high rate: unit by unit falls silent for every point, at step 214 the twelfth of forty. A silent unit gets no gradient of its own.",
    link: "data=moons&depth=10&width=4&activation=relu&rate=0.03&weight=1&optimiser=adam&start=mirrored&method=none&seed=9&epoch=214",
  },
  {
    name: "batch-norm",
    title: "Batch norm keeps units, loses points",
    sentence:
      "After 900 epochs with batch norm most units are alive, yet nearly every point is mapped to zeros by some layer, and the network has hardly learned.",
    link: `${FIFTY}&start=glorot&method=batch-norm&seed=3&epoch=900`,
  },
  {
    name: "mirrored",
    title: "Mirrored start",
    sentence:
      "Units in pairs that see u and −u carry the points through all fifty layers: the same plain network learns, with nothing added to the loss.",
    link: `${FIFTY}&start=mirrored&method=none&seed=1&epoch=300`,
  },
  {
    name: "sep-up-revives",
    title: "Sep-UP revives",
    sentence:
      "Dead for 100 epochs, then the penalty on units and points is added to the running network: nearly all units come alive, and it learns.",
    link: `${FIFTY}&start=glorot&method=none&seed=10&cure=100:sep-up&epoch=700`,
  },
];
