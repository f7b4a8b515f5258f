// Types of the scripts in this folder: the messages between the server and the browser, and the
// state that the scripts derive from them. The server writes the messages in
// app/figures/canvas_scene.py (Scene) and app/views/compare/figures.py (Trajectories), and reads
// the answers (CursorState, PickEvent, ViewState) in app/components/map/canvas.py.

/** A point [x, y], in data units or in CSS pixels. */
type Point = [number, number];

/** The two ends of an axis range, in data units. */
type AxisRange = [number, number];

/** Ranges of the horizontal and of the vertical axis. */
interface View {
  x: AxisRange;
  y: AxisRange;
}

/** A rectangle of the canvas, in CSS pixels. */
interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Conversion of a coordinate from data units to CSS pixels. */
type AxisScale = (value: number) => number;

/** Conversion between data units and CSS pixels, for one view and one plot area. */
interface Scale {
  box: Box;
  toX: AxisScale;
  toY: AxisScale;
  toData: (x: number, y: number) => Point;
}

/** Colours of the page, as CSS colours. */
interface Ink {
  text: string;
  muted: string;
  hairline: string;
  panel: string;
  page: string;
  accent: string;
}

/** Colour and marker of a group of rows. */
interface Look {
  colour: string;
  shape: string;
}

/** A curve through [x[i], y[i]], in data units. */
interface Curve {
  x: number[];
  y: number[];
}

/** The rows of a map. Arrays are base64 of their little-endian bytes, one element a row. */
interface PackedPoints {
  n: number;
  /** float32, data units. */
  x: string;
  y: string;
  /** uint32: the row's index in the dataset. */
  number: string;
  /** uint8: index into `looks`. */
  code: string;
  /** uint8: 1 for a selected row; absent without a selection. */
  selected?: string;
  /** uint8: 1 for a row that is drawn as an open mark; absent where none is. */
  hollow?: string;
  /** float32: diameter of the marker in pixels; absent where all are alike. */
  size?: string;
  /** uint8: index into `symbols`; absent where the look decides the shape. */
  symbol?: string;
  /** float32: posterior standard deviations on both axes; absent without ellipses. */
  sx?: string;
  sy?: string;
  /** float32: posterior correlation of both axes; absent where it is 0. */
  correlation?: string;
}

/** The heatmap behind the rows, on a square grid of `size` by `size` cells, lowest y first. */
interface Heat {
  size: number;
  /** float32, base64. */
  value: string;
  limits: AxisRange;
  /** Colours from the lower to the upper limit, each [red, green, blue] of 0 to 255. */
  ramp: number[][];
  title: string;
  contours: Contour[];
}

/** The name of a group of rows, at a point in data units. */
interface GroupLabel {
  text: string;
  x: number;
  y: number;
  code: number;
}

/** A line of equal value of the heatmap, in data units, and the value. */
interface Contour extends Curve {
  text: string;
}

/** The content of a map in a file of its own, from app/report/map_document.py. */
interface MapFile {
  /** Positions, data units. */
  x: number[];
  y: number[];
  /** Index into `light` and `dark`. */
  code: number[];
  /** Lines that describe each row, the first one its name. */
  text: string[][];
  titles: [string, string];
  light: Look[];
  dark: Look[];
  legend: { text: string; code: number }[];
}

/** An entry of the legend. A `code` makes it a button that hides the rows of that look. */
interface LegendEntry extends Look {
  text: string;
  code?: number | null;
  /** Whether the entry can be moved among those of its line that can be moved too. */
  movable?: boolean;
}

/** A line of the legend: entries, or a colour ramp between two numbers. */
interface LegendLine {
  title?: string;
  entries?: LegendEntry[];
  low?: string;
  high?: string;
  ramp?: string[];
}

/** What a map shows, as the server sends it. */
interface Scene {
  /** Ranges of the axes in data units. */
  x: AxisRange;
  y: AxisRange;
  /** Titles of the axes; null draws neither titles nor ticks. */
  titles: [string, string] | null;
  /** Description for screen readers. */
  alt: string;
  /** Identifies the scene; another value resets the view, the hidden rows and the cursor. */
  id: string;
  /** Pixels. */
  height: number;
  /** Whether the zoom is reported though the server draws nothing else for it. */
  reports_zoom: boolean;
  /** Pixels of the window's height that the rest of the page takes; 0 keeps `height`. */
  reserved: number;
  /** Whether both axes have the same unit of length. */
  equal: boolean;
  /** Whether a click on a point without a row selects that point. */
  places: boolean;
  /** Whether a cursor follows the mouse; otherwise rows are clicked and regions drawn. */
  follow: boolean;
  /** Radius of a row's marker in pixels. */
  radius: number;
  /** Size of a posterior ellipse in standard deviations. */
  ellipse: number;
  looks: Look[];
  /** Title of the colouring. */
  colours: string;
  /** The looks from the lowest layer to that on top; null draws the rows in their order. */
  layers: number[] | null;
  points: PackedPoints;
  /** Markers that `points.symbol` refers to. */
  symbols: string[];
  /** Hover text of each row, lines separated by \n; null without hover texts. */
  texts: string[] | null;
  /** Letters on the map. */
  marks: { text: string; x: number; y: number }[];
  /** Names of groups of rows, the most important first; hidden with the look `code`. */
  groupLabels: GroupLabel[];
  /** Pictures that mark the rows; null for none. */
  pictures: PictureSheet | null;
  /** Polygons of the selected regions. */
  outlines: Point[][];
  /** Inducing inputs, one entry a path. */
  inducing: (Curve & { shape: string })[];
  /** The selected point. */
  marked: Point | null;
  path: Curve | null;
  heat: Heat | null;
  /** Picture of the density of rows (a data address), and the ranges it covers. */
  density: { picture: string; ranges: [AxisRange, AxisRange] } | null;
  /** All rows of a large map, of which `points` are those with a marker; null for other maps. */
  allRows: AllRows | null;
  /** Initial position of the cursor; null shows none. */
  at: Point | null;
  ink: Ink;
  legend: LegendLine[];
}

/** Pictures in lines and columns on one sheet, a file at this address. */
interface PictureSheet {
  address: string;
  /** Pictures in a line. */
  columns: number;
  /** Pixels of the sheet. */
  width: number;
  height: number;
  /** Base64 of uint32: the row of each picture, its index in the dataset. */
  rows: string;
}

/** A sheet that is loaded, with the place of each row on it. */
interface LoadedPictures {
  sheet: PictureSheet;
  bitmap: ImageBitmap;
  places: Map<number, number>;
}

/** All rows of a large map, from app/figures/density.py. Arrays are files at these addresses. */
interface AllRows {
  n: number;
  /** Ranges of the positions, data units. */
  ranges: [AxisRange, AxisRange];
  /** uint16: x of all rows, then y, as shares of their ranges in steps of 1/65535. */
  positions: string;
  /** uint8: index into `colours`, the index of the row's look. */
  codes: string;
  /** uint32: the row's index in the dataset; null where that is its place. */
  numbers: string | null;
  /** UTF-8: names of the rows of the dataset, a line each; null where they are 1, 2, …. */
  names: string | null;
  /** Colours of the looks, each [red, green, blue] of 0 to 255. */
  colours: [number, number, number][];
  /** Base64 of bits, the lowest first: 1 for a selected row; null without a selection. */
  selected: string | null;
}

/** All rows of a large map, one element a row; `selected` has a bit a row. */
interface LoadedRows {
  n: number;
  ranges: [AxisRange, AxisRange];
  colours: [number, number, number][];
  x: Uint16Array;
  y: Uint16Array;
  code: Uint8Array;
  numbers: Uint32Array | null;
  selected: Uint8Array | null;
  /** Names by index in the dataset; null where they are 1, 2, …, or are not loaded yet. */
  names: string[] | null;
}

/** Number of rows, and sums of their colours, by cell of the plot area, from its upper left. */
interface CellSums {
  width: number;
  height: number;
  number: Uint32Array;
  red: Float32Array;
  green: Float32Array;
  blue: Float32Array;
}

/** A row at a position of the map. */
interface FoundRow {
  /** Its index in the dataset. */
  number: number;
  /** Its position, data units. */
  point: Point;
  /** Lines of its tooltip; none without hover texts. */
  lines: string[];
}

/** Draws a marker once and returns the canvas with it; a hollow one can have a colour inside. */
type MarkerCache = (
  colour: string, shape: string, hollow: boolean, radius: number, inside?: string | null,
) => HTMLCanvasElement;

/** A scene with its arrays decoded, one element a row. */
interface DecodedScene extends Scene {
  /** The height that the server sends; `height` may be less in a low window. */
  tallest: number;
  n: number;
  px: Float32Array;
  py: Float32Array;
  number: Uint32Array;
  code: Uint8Array;
  selected: Uint8Array | null;
  hollow: Uint8Array | null;
  size: Float32Array | null;
  symbol: Uint8Array | null;
  sx: Float32Array | null;
  sy: Float32Array | null;
  correlation: Float32Array | null;
  heatValue: Float32Array | null;
  /** Cached markers, and the device pixel ratio they were drawn for. */
  markers?: MarkerCache;
  markersRatio?: number;
}

/** What the server sends to the map: a scene as JSON, and the digest of that text. */
interface MapData {
  digest: string;
  scene: string;
  /** Ranges that a scene with a new id opens with; null or absent for the full range. */
  zoom?: [AxisRange, AxisRange] | null;
}

/** Position of the cursor, sent to the server as the state `at`. */
interface CursorState {
  x: number;
  y: number;
  /** Whether a click or a key fixed the cursor there. */
  held: boolean;
  /** `id` of the scene. */
  scene: string;
}

/** A click or a drawn region, sent to the server as the trigger `pick`. */
type PickEvent =
  | { kind: "row"; row: number; scene: string }
  | { kind: "place"; x: number; y: number; scene: string }
  | { kind: "box" | "lasso"; polygon: Point[]; scene: string }
  | { kind: "order"; codes: number[]; scene: string }
  | { kind: "nothing"; scene: string };

/** Ranges of a zoomed map, sent to the server as the state `view`; null for the full range. */
interface ViewState {
  x: AxisRange | null;
  y: AxisRange | null;
  /** `id` of the scene. */
  scene: string;
}

/** A tool of the map that stays active: pan and click, or select a region. */
type Tool = "point" | "box" | "lasso";

/** A drag on the map. */
interface Drag {
  kind: Tool;
  /** Position of the pointer when the button went down, in pixels. */
  from: Point;
  /** The view at that moment. */
  view: View;
  /** Corners of the drawn region, in data units. */
  corners: Point[];
  /** Whether the pointer moved far enough to be a drag. */
  far: boolean;
}

/** The rows of two maps and their positions on both, as the server sends them. */
interface Trajectories {
  /** Ranges of the axes in data units. */
  x: AxisRange;
  y: AxisRange;
  /** Pixels. */
  height: number;
  radius: number;
  looks: Look[];
  /** Rows without a trail: position on the second map, and index into `looks`. */
  others: { x: number[]; y: number[]; c: number[] };
  /** Rows with a trail: first and second position, index into `looks`, lines of the label. */
  trails: { x0: number[]; y0: number[]; x1: number[]; y1: number[]; c: number[]; name: string[][] };
  /** Names of the two maps. */
  ends: [string, string];
  /** Accessible name of the slider. */
  slider: string;
  alt: string;
  /** Identifies the pair of maps; another value resets the slider. */
  id: string;
  ink: Ink;
}

/** A chart of a column, on which rows are filtered, from app/components/map/filter_charts.py. */
interface FilterChart {
  column: string;
  title: string;
  /** Whether it is a histogram of numbers; otherwise it has a bar for each category. */
  numbers: boolean;
  /** Rows of each bar, and those that pass the conditions of everything else. */
  counts: number[];
  passing: number[];
  /** Name of each bar. */
  bars: string[];
  /** Lower and upper end of each bar of a histogram. */
  ends: [string, string][];
  /** Texts at the left end, about the middle and the right end of the axis. */
  ticks: string[];
  /** Place of the middle text, as a share of the width. */
  middle: number;
  /** Bars that a click chooses. */
  clickable: number[];
  /** Whether the last bar is that of missing cells, which a histogram does not draw. */
  missing: boolean;
  /** First and last brushed bar; null where the condition is no range of bars. */
  range: [number, number] | null;
  /** Ends of an interval, as shares of the width. */
  span: [number, number] | null;
  /** The chosen categories. */
  chosen: number[];
  /** Whether the chart has a condition, and whether NOT stands before it. */
  active: boolean;
  negated: boolean;
  /** uint8, base64: bar of each row; null for too many rows. */
  codes: string | null;
}

/** The charts of a table, as the server sends them. */
interface FilterData {
  charts: FilterChart[];
  operator: "and" | "or";
  /** Number of rows, and of those that are selected. */
  rows: number;
  selected: number;
  /** uint16, base64: bit k of a row tells whether it meets the condition of chart k, bit 8 whether
   * it passes the conditions of no chart; null for too many rows. */
  met: string | null;
  hasOthers: boolean;
  ink: Ink;
}

/** What the server sends to the charts: FilterData as JSON, and the digest of that text. */
interface FilterMessage {
  digest: string;
  charts: string;
}

/** A brush or a click, sent to the server as the trigger `brush`; without either: no condition. */
type BrushEvent =
  | { column: string; first: number; last: number }
  | { column: string; bar: number }
  | { column: string };

/** A chart on the page. */
interface DrawnChart {
  codes: Uint8Array | null;
  /** Draw its bars and texts again. */
  draw: () => void;
}

/** A trail on the canvas, in pixels: the row's current, first and last position. */
interface Trail {
  now: Point;
  start: Point;
  end: Point;
}

/** The arguments of a Streamlit component's default export. */
interface Component<Data> {
  parentElement: HTMLElement | ShadowRoot;
  data: Data;
  setStateValue: (name: string, value: unknown) => void;
  setTriggerValue: (name: string, value: unknown) => void;
}

/** A figure of the report: plotly's data and layout on a light and on a dark page. */
interface ReportFigure {
  light: { data: object[]; layout: object };
  dark: { data: object[]; layout: object };
  config: object;
}

/** plotly.js, which the report contains. */
declare const Plotly: {
  react(id: string, data: object[], layout: object, config: object): Promise<unknown>;
};
