"""`foreword chat`: talk with an agent in the terminal."""
