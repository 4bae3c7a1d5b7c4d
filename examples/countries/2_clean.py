df["area"] = pd.to_numeric(df.area_km2.str.replace(",", ""))
df["people"] = pd.to_numeric(df.population.str.removesuffix(" million"), errors="coerce") * 1e6
dropped = df[df.people.isna()].country.tolist()
df = df.dropna(subset=["people"])
df["density"] = df.people / df.area
print("left out:", *dropped)
print(f"{len(df)} countries, {df.people.sum() / 1e9:.2f} billion people")
