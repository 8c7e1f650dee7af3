// The same package as an ES module has the same names.
import * as quorlock from 'quorlock'

export const client: quorlock.Client = new quorlock.Client('redis://localhost')
export const names: (keyof typeof quorlock)[] = ['Client', 'Lease', 'QuorlockError', 'version']
