// Imported first: no module may make a style element before.
import { giveStylesTheNonce } from './nonce';

giveStylesTheNonce();
