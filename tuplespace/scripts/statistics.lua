-- Count what is in the space.
--   args: none
--   result: {waiting tuples, all tuples, leases, waiting takers, waiting readers, sessions, kept replies}
return {
  call('ZLEXCOUNT', index, '[\0', '(\1'), call('HLEN', tuples), call('HLEN', held),
  call('ZCARD', takers), call('ZCARD', readers), call('ZCARD', sessions), call('HLEN', replies),
}
