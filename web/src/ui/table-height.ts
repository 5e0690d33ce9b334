// How high a table is that stands among other things: as high as its rows, up to some.
const ROW_PX = 34;
const HEAD_AND_FOOT_PX = 70;
const EMPTY_PX = 260;

export const tableHeight = (rows: number, most: number): string => (rows === 0 ? `${EMPTY_PX}px` : `${HEAD_AND_FOOT_PX + Math.min(rows, most) * ROW_PX}px`);
